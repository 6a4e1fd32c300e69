"""What writing ONNX nodes needs wherever it is done: names, literals, schemas, facts about operators, opsets.

Translation, optimization, legalisation and the outlining of functions each build or change graphs. What they must
agree on is said here, and nothing here knows any of them.
"""
