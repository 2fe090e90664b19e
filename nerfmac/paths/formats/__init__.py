"""The files of camera paths: nerfmac's own, nerfstudio's and instant-ngp's."""
