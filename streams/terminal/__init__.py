"""What commands print: texts made safe for a terminal, columns, lines for records, progress."""
