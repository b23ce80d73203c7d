"""What prompts do: cosines of sentence pairs and nearest words. ``python -m fairseq_idpg.analysis COMMAND``."""
