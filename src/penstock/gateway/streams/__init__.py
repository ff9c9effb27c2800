"""Topics live: followed over WebSocket or as Server-Sent Events, written over WebSocket."""
