"""whence: from what place did this prediction come?"""
