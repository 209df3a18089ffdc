"""Applications, one file each: `build()` gives the App, the rest generates its events."""
