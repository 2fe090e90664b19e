"""`nerfmac bench`: how fast this machine computes, and how fast a model learns on it.

benchmark     every operation by kernel and by reference, and a picture
operations    the operations with inputs of a training step's sizes
roofline      a step's time on Apple's chips, estimated from its recorded launches
models        the vanilla model beside the hash model: quality over seconds of training
film          how fast a film is rendered, encoded, and both at once
scaling       one model on ever more ranks: samples per second, quality over seconds
quality, plot held-out views while a field trains; curves of their quality
"""
