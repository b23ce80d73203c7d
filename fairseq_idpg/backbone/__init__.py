"""fairseq's own RoBERTa encoder with its slots open; loading its weights; several methods in one pass."""
