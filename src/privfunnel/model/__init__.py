"""What is asked: problems, attackers, guarantees, tasks and costs, and the question that they make together."""
