"""Published figures of DeepSeek-V4 beside ours: what is reproduced, and how."""
