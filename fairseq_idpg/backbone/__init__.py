"""fairseq's own RoBERTa encoder with its slots open; loading it; representations of a sentence."""
