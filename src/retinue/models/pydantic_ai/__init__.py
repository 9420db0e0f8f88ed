"""All other providers, through Pydantic AI's model classes and the providers' own packages; translated in here only."""
