#include "kernel/cli/output_file.hpp"

#include <fstream>

#include "tessera/error.hpp"

namespace tessera {

void write_output_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  require(out.good(), "{} cannot be written", file);
}

}  // namespace tessera
