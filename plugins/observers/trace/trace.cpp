#include "trace.hpp"

#include <filesystem>
#include <fstream>

#include "tessera/error.hpp"

namespace tessera {

void TraceWriter::on(const Recorded& recorded) {
  const std::string path = arguments_.out + "/trace.json";
  set_aside(path);
  std::error_code error;  // a pipe would be waited for without end
  if (std::filesystem::is_fifo(path, error)) fail("trace: \"{}\" is a pipe and no file", path);
  std::ofstream out(path, std::ios::binary);
  out << recorded.trace;
  out.close();
  if (!out.good()) fail("trace: cannot write \"{}\"", path);
}

}  // namespace tessera
