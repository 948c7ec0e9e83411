#include "trace.hpp"

#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"

namespace tessera {

void TraceWriter::do_on(const Recorded& recorded) {
  const std::string path = arguments_.out + "/trace.json";
  set_aside(path);
  if (is_pipe(path)) fail("trace: \"{}\" is a pipe and no file", path);
  OutputFile(path).write(recorded.trace);
}

}  // namespace tessera
