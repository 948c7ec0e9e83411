#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bpe_files.hpp"
#include "pattern.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A change of the text before it is cut.
struct NormalizerStep {
  enum class Kind : u8 {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    prepend,
    replace,
    clean,             ///< no control characters; white space is spaces
    space_ideographs,  ///< spaces around each
    strip_marks        ///< accents go, where they are characters of their own
  };
  Kind kind = Kind::nfc;
  std::string text;     ///< what is put before it, or in the place of `pattern`
  PatternText pattern;  ///< of `replace`
};

/// What becomes of the matches that cut a text.
enum class Delimiter : u8 { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// One way to cut what the step before it left whole.
struct SplitStep {
  enum class Kind : u8 { byte_level, split, digits, metaspace, white_space, punctuation };
  enum class Prefix : u8 { never, first, always };
  Kind kind = Kind::split;
  PatternText pattern;                       ///< of `split`
  Delimiter behavior = Delimiter::isolated;  ///< of `split` and `punctuation`
  bool invert = false;                       ///< of `split`: what lies between matches cuts
  bool cut = true;                           ///< `byte_level`, `metaspace`: into words
  bool each = false;                         ///< of `digits`: each is a part
  Prefix prefix = Prefix::never;             ///< of `byte_level` and `metaspace`
  std::string replacement;                   ///< of `metaspace`: what stands for a space
};

/// A change of the texts of tokens, from which they are joined.
struct DecoderStep {
  enum class Kind : u8 { byte_level, replace, byte_fallback, fuse, strip, metaspace, word_piece };
  Kind kind = Kind::fuse;
  PatternText pattern;  ///< of `replace`
  /// What `replace` puts, `strip` takes, `metaspace` has for a space, `word_piece` before a piece.
  std::string text;
  i64 start = 0, stop = 0;    ///< of `strip`: how many characters at most
  bool keeps_spaces = false;  ///< of `metaspace`: the first token keeps its own
  bool clean_up = false;      ///< of `word_piece`: no space before a mark of punctuation
};

/// WordPiece (Schuster, Nakajima 2012; Devlin et al. 2018): a word is cut from its begin into the
/// longest tokens.
struct PieceRules {
  std::string prefix;         ///< of tokens that begin within a word: "##"
  i64 most_characters = 100;  ///< a longer word is one unknown token
};

/// What a tokenizer.json says, as far as it decides ids and texts.
struct TokenizerFile {
  BpeFiles bpe;
  std::string unknown;  ///< model.unk_token; empty: there is none
  bool fuse_unknown = false, byte_fallback = false, whole_words = false;
  std::optional<PieceRules> pieces;  ///< none: words are merged from bytes or characters
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> pre_tokenizer;
  std::optional<std::vector<DecoderStep>> decoder;  ///< none: spaces between the tokens
};

/// `path` is a tokenizer.json or its folder. Throws ConfigError naming the file, and where in it
/// what is wrong, or not known here.
TokenizerFile read_tokenizer(const std::filesystem::path& path);
/// The same of a text; `file` is for errors.
TokenizerFile parse_tokenizer(std::string_view text, const std::string& file);

}  // namespace tessera
