"""Where consortia already work: frameworks that connect the sites."""
