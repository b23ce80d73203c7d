"""Using what was trained: a checkpoint and anybody's sentences in, answers out.

In the order in which a prediction comes about:

load              the model of a checkpoint
text              sentences to ids, and to the mean vectors of their words
predictor, many   these to a ``Prediction`` each, by one task or by several on one backbone
prompts           the prompt rows that an input gets, and the words that are nearest to them
int8              products in int8
hub               fairseq's interface of a trained model
folder            predictions for a split of a binarized folder
files             files of sentences and of predictions
"""
