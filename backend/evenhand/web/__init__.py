"""HTTP edges: the Label Studio protocol, the JSON API and the dashboard."""
