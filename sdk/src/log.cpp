#include "tessera/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// A logger of its own, outside spdlog's registry, which would be one per library.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("tessera", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("%l: %v");
    made.flush_on(spdlog::level::debug);
    return made;
  }();
  return instance;
}

std::atomic<i64> warnings = 0;

}  // namespace

i64 logged_warnings() { return warnings; }

void log(LogLevel level, std::string_view text) {
  if (level == LogLevel::warning) ++warnings;
  constexpr spdlog::level::level_enum kLevels[] = {
      spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  logger().log(kLevels[static_cast<int>(level)], readable(text));
}

}  // namespace tessera
