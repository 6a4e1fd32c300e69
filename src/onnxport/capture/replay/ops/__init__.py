"""What the nodes of a TorchScript graph do: operators that are called, and handlers of all other kinds."""
