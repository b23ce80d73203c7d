"""From nothing to a table of test accuracies on movie reviews: ``bash run_scripts/quickstart.sh``."""
