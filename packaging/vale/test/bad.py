"""Nobody (!) calls this."""

# What it is (!).
whoever = "nobody"  # nobody (!)
