// What is part of the plugin `nccl` alone and tested without it.
#include "plugins/communicators/nccl/library.cpp"   // NOLINT(bugprone-suspicious-include)
#include "plugins/communicators/nccl/settings.cpp"  // NOLINT(bugprone-suspicious-include)
