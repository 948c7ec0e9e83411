#include "trace.hpp"

#include <fstream>

#include "tessera/error.hpp"

namespace tessera {

void TraceWriter::on(const Recorded& recorded) {
  const std::string path = arguments_.out + "/trace.json";
  set_aside(path);
  if (is_pipe(path)) fail("trace: \"{}\" is a pipe and no file", path);
  std::ofstream out(path, std::ios::binary);
  out << recorded.trace;
  out.close();
  if (!out.good()) fail("trace: cannot write \"{}\"", path);
}

}  // namespace tessera
