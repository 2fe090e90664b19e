"""The application: scenes, runs, videos, exports, the viewer, and the commands.

The application uses the library, that is, all other packages of nerfmac. The library never imports
the application.
"""
