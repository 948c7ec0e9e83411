// The loader of cuBLASLt, which is part of the plugin `cuda` alone.
#include "plugins/devices/cuda/cublaslt.cpp"        // NOLINT(bugprone-suspicious-include)
#include "plugins/devices/cuda/vendor_library.cpp"  // NOLINT(bugprone-suspicious-include)
