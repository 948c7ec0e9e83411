#pragma once
#include <string>
#include <string_view>

#include "tessera/io/json.hpp"
#include "tessera/observer.hpp"

// How observers tell what a run's speed is worth, the same wherever they do.
namespace tessera {

inline constexpr std::string_view kFlopsPerSecond = "flops_per_second";  ///< of a rank
inline constexpr std::string_view kMfu = "mfu";

/// For people: "41.2 TFLOP/s a rank, MFU 41.7 %"; without what is not known, so it may be empty.
TESSERA_API std::string work_text(const RunStart& run, double tokens_per_second);

/// Adds kFlopsPerSecond and kMfu to a step's line, for programs, without what is not known.
TESSERA_API void add_work(Json& line, const RunStart& run, double tokens_per_second);

}  // namespace tessera
