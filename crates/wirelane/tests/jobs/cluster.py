"""What TensorFlow itself reads from TF_CONFIG."""

import pathlib
import socket
import time

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
cluster = resolver.cluster_spec().as_dict()
own = cluster[resolver.task_type][resolver.task_id]
print(f"{resolver.task_type} {resolver.task_id} on {socket.gethostname()} at {own}", flush=True)
print("cluster", " ".join(f"{kind}={len(tasks)}" for kind, tasks in sorted(cluster.items())), flush=True)

# A server is ended when the last worker is done: the worker waits until the server has printed.
served = pathlib.Path("served")
if resolver.task_type == "ps":
    served.touch()
until = time.monotonic() + 120
while not served.exists() and time.monotonic() < until:
    time.sleep(0.1)
