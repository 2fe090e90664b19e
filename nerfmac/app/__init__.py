"""The application: scenes, runs, videos, exports, the viewer, and the commands.

It uses the library, which is every other package of nerfmac. The library never imports it.
"""
