"""Wire formats spoken by hand, one file each: many times cheaper than through the providers' own packages."""
