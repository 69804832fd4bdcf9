"""What a trial leaves behind to be used: its checkpoint as a policy, evaluated, and shown."""
