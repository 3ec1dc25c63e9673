// The page of this name: see PLAN9.
