"""What every app may import: environment, roles, audit, requests, the model client, text. Imports no app."""
