"""What is scheduled: Problem, its costs, kinds of operations, placement, and its model on a grid."""
