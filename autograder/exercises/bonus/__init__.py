"""What right answers are raced for where there is a GPU: shown beside the verdict, never points."""
