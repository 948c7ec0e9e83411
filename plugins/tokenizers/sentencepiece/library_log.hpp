#pragma once

// The library exports it, and declares it in a header that packages leave out.
namespace sentencepiece::logging {
__attribute__((weak)) void SetMinLogLevel(int level);
}

namespace tessera {

/// What the library would say on the terminal of its own accord is in its results too.
inline void silence_library() {
  static const bool once = [] {
    constexpr int kFatalOnly = 3;
    if (sentencepiece::logging::SetMinLogLevel != nullptr) {
      sentencepiece::logging::SetMinLogLevel(kFatalOnly);
    }
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace tessera
