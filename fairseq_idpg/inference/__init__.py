"""Using what was trained: a checkpoint and anybody's sentences in, answers out.

In the order in which a prediction comes about:

trained, load             the model of a checkpoint, and what its text was encoded with
text                      sentences to ids, and to the mean vectors of their words
examples                  ids to the batches that the task would make of a data folder
predictor, many           these to a ``Prediction`` each, by one task or by several on one backbone
prompts, vocabulary       the prompt rows that an input gets, and the words that are nearest to them
int8                      products in int8
hub                       fairseq's interface of a trained model
folder                    predictions for a split of a binarized folder
reading, prediction       files of sentences and of predictions
cli_options               options of commands that load a model
predict, export, encode   what the commands of these names do
"""
