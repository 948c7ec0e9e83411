// The loader of NCCL, which is part of the plugin `nccl` alone.
#include "plugins/communicators/nccl/library.cpp"  // NOLINT(bugprone-suspicious-include)
