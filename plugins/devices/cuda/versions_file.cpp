#include <fstream>
#include <iterator>

#include "versions.hpp"

namespace tessera::cuda {

std::string driver_file() {
  std::ifstream file("/proc/driver/nvidia/version");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tessera::cuda
