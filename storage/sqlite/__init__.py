"""The store on SQLite: one file with one owner."""
