"""`dragoman probe`: sends small requests to an upstream and reports what works and what does not."""
