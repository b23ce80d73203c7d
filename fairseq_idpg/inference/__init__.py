"""Using what was trained: a checkpoint and anybody's sentences in, answers out.

In the order in which a prediction comes about:

trained, load             the model of a checkpoint, and what its text was encoded with
text, glove               sentences to ids, and to the mean vectors of their words
examples                  ids to the batches that the task would make of a data folder
predictor, prediction     these to a ``Prediction`` each; ``entailment``: of EFL's models
prompts, vocabulary       the prompt rows that an input gets, and the words that are nearest to them
many, joint_pass, sharing several tasks on one backbone
int8                      products in int8
hub                       fairseq's interface of a trained model
folder                    predictions for a split of a binarized folder
reading, writing, opening files of sentences and of predictions, options of commands
values                    arguments that Python callers give
"""
