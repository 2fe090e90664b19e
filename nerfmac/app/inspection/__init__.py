"""Inspection of a scene before training: its contents, and possible problems."""

from nerfmac.app.inspection.inspection import *
