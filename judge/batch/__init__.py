"""The batch road: jobs leave as a file, are judged without a network, come back as signed outcomes. No Django."""
