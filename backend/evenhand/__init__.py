"""The Evenhand service: Label Studio in, stored runs, dashboard and alerts out."""
