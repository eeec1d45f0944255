"""What lmn and PWCF share: a search by exact steps on the linearised problem. No attack by itself."""
