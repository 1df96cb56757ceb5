"""What `securefedyj demo` and `securefedyj example` show."""
