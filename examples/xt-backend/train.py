import os
import sys

print("training with", sys.argv[1:], "on a", os.environ["CLOUD_SKU"])
