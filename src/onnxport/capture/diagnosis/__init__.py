"""Why a capture failed or what it took for granted, in the user's words and with the user's line."""
