#include "kernel/cli/eval_scores.hpp"

#include <filesystem>

#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace fs = std::filesystem;

void check_scores_file(const std::string& file, const RunSetup& setup) {
  if (setup.evaluations.at(0).second->samples() == nullptr) {
    fail_config("--scores: this evaluation is of texts, not of samples");
  }
  std::error_code unknown;
  if (fs::exists(fs::symlink_status(file, unknown))) {
    fail_config("--scores {}: it is there already; name a new file", written_path(file));
  }
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, unknown)) {
    fail_config("--scores {}: there is no folder {}", written_path(file), written_path(folder));
  }
}

void write_scores(const std::string& file, const Dataset& samples, const SampleScores& scores) {
  OutputFile out(file);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    Json line;
    line.add("sample", samples.origin(SampleSet::test, static_cast<i64>(i)));
    line.add("scores", Json::array(scores[i], [](float one) { return Json(double{one}); }));
    out.write(line.text() + "\n");
  }
  out.sync();
}

}  // namespace tessera
