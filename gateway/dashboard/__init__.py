"""The pages of account owners under `/dashboard` (decisions 22)."""
