// Rotary positions, and the rules by which models see further than they were trained: what
// transformers calls rope_type.
#include "tessera/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>
#include <utility>

#include "tessera/plugin.hpp"

namespace tessera {
namespace {

/// Keys that all types have.
struct Turning {
  i64 head_size = 0;
  double base = 10000, fraction = 1;
  bool interleaved = false;

  template <class Config>
  static void describe(Schema<Config>& s) {
    s.field("head_size", &Turning::head_size, "features of a head")
        .given()
        .at_least(1)
        .at_most(kMostFeatures);
    s.field("base", &Turning::base, "pair j of d features turns by base^(-2j/d) a position")
        .above(1)
        .structural()
        .megatron("--rotary-base")
        .also("rope_theta");
    s.field("fraction", &Turning::fraction, "share of a head's features that turn, its first ones")
        .above(0)
        .at_most(1)
        .structural()
        .megatron("--rotary-percent")
        .also("partial_rotary_factor");
    s.field("interleaved",
            &Turning::interleaved,
            "pairs are neighbouring features; else feature j turns with one of the second half")
        .structural()
        .megatron("--rotary-interleaved");
  }

  /// How many features of a head turn: an even number.
  i64 features(const BuildContext& build) const {
    const i64 features = static_cast<i64>(fraction * static_cast<double>(head_size));
    if (features < 2 || features % 2 != 0) {
      build.reject("fraction",
                   fmt::format("rotary positions turn pairs of features, and {} of a head's {} are "
                               "{}: an even number of at least 2 is wanted",
                               fraction,
                               head_size,
                               features));
    }
    return features;
  }
};

/// share(pair, frequency) of a frequency, from 0 to 1, is divided by `factor`.
template <class Share>
RotaryAngles angles_of(const Turning& turning, i64 features, double factor, const Share& share) {
  RotaryAngles angles;
  angles.interleaved = turning.interleaved;
  for (i64 pair = 0; pair < features / 2; ++pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(features);
    const double frequency = std::pow(turning.base, exponent), of = share(pair, frequency);
    angles.frequencies.push_back((1 - of) * frequency + of * frequency / factor);
  }
  return angles;
}

/// Angles that are known once the component is built.
class Built : public Rotary {
 public:
  explicit Built(RotaryAngles angles) : angles_(std::move(angles)) {}

 private:
  RotaryAngles do_angles() const override { return angles_; }
  RotaryAngles angles_;
};

template <class Config>
void describe_factor(Schema<Config>& s, std::string_view megatron) {
  s.field("factor", &Config::factor, "how much further than in training the model is to see")
      .at_least(1)
      .required()
      .structural()
      .megatron(megatron);
}
template <class Config>
void describe_original(Schema<Config>& s) {
  s.field("original_positions", &Config::original_positions, "positions of a sample in training")
      .at_least(1)
      .at_most(kMostPositions)
      .required()
      .structural()
      .also("original_max_position_embeddings");
}

}  // namespace

/// As it was trained.
class DefaultRotary final : public Built {
 public:
  struct Config : Turning {
    static void describe(Schema<Config>& s) { Turning::describe(s); }
  };
  DefaultRotary(const Config& config, BuildContext& build)
      : Built(angles_of(config, config.features(build), 1, [](i64, double) { return 0.0; })) {}
};

/// Positions are divided by a factor (Chen et al. 2023, "Extending Context Window of Large Language
/// Models via Positional Interpolation").
class LinearRotary final : public Built {
 public:
  struct Config : Turning {
    double factor = 1;
    static void describe(Schema<Config>& s) {
      Turning::describe(s);
      describe_factor(s, "--rotary-seq-len-interpolation-factor");
    }
  };
  LinearRotary(const Config& config, BuildContext& build)
      : Built(angles_of(
            config, config.features(build), config.factor, [](i64, double) { return 1.0; })) {}
};

/// Frequencies of long waves are divided, those of short ones stay, with a slope between
/// (Llama 3.1; Grattafiori et al. 2024).
class Llama3Rotary final : public Built {
 public:
  struct Config : Turning {
    double factor = 1, low_frequency_factor = 1, high_frequency_factor = 4;
    i64 original_positions = 0;
    static void describe(Schema<Config>& s) {
      Turning::describe(s);
      describe_factor(s, "--rope-scaling-factor");
      describe_original(s);
      s.field("low_frequency_factor",
              &Config::low_frequency_factor,
              "waves longer than original_positions / this are divided by factor")
          .above(0)
          .structural()
          .also("low_freq_factor");
      s.field("high_frequency_factor",
              &Config::high_frequency_factor,
              "waves shorter than original_positions / this stay")
          .above(0)
          .structural()
          .also("high_freq_factor");
    }
  };
  Llama3Rotary(const Config& config, BuildContext& build) : Built(made(config, build)) {}

 private:
  static RotaryAngles made(const Config& config, const BuildContext& build) {
    const double low = config.low_frequency_factor, high = config.high_frequency_factor;
    if (high <= low) {
      build.reject("high_frequency_factor",
                   fmt::format("{} is not above low_frequency_factor = {}", high, low));
    }
    const auto share = [&](i64, double frequency) {
      const double wave = 2 * std::numbers::pi / frequency;
      const double waves = static_cast<double>(config.original_positions) / wave;
      return 1 - std::clamp((waves - low) / (high - low), 0.0, 1.0);
    };
    return angles_of(config, config.features(build), config.factor, share);
  }
};

/// Pairs that turn often in training stay, those that hardly turn are divided, with a slope by
/// pairs between; cosines and sines are scaled (Peng et al. 2023, "YaRN", §3.2, §3.4).
class YarnRotary final : public Built {
 public:
  struct Config : Turning {
    double factor = 1, beta_fast = 32, beta_slow = 1;
    Auto<double> attention_factor, mscale, mscale_all_dim;
    i64 original_positions = 0;
    static void describe(Schema<Config>& s) {
      Turning::describe(s);
      describe_factor(s, "--rotary-scaling-factor");
      describe_original(s);
      s.field("beta_fast", &Config::beta_fast, "pairs that turn so often in training stay")
          .above(0)
          .structural();
      s.field("beta_slow", &Config::beta_slow, "pairs that turn less often are divided by factor")
          .above(0)
          .structural();
      s.field("attention_factor",
              &Config::attention_factor,
              "of cosines and sines; \"auto\": 0.1 · ln factor + 1, or (0.1 · mscale · ln factor + "
              "1) / (0.1 · mscale_all_dim · ln factor + 1) where both are given")
          .above(0)
          .structural();
      const auto share = [&s](std::string_view name, Auto<double> Config::*member) {
        s.field(name,
                member,
                "part of attention_factor = \"auto\"; \"none\": that has no such part",
                "none")
            .above(0)
            .structural()
            .megatron(name == "mscale" ? "--mscale" : "--mscale-all-dim");
      };
      share("mscale", &Config::mscale);
      share("mscale_all_dim", &Config::mscale_all_dim);
    }
  };
  YarnRotary(const Config& config, BuildContext& build) : Built(made(config, build)) {}

 private:
  static RotaryAngles made(const Config& config, const BuildContext& build) {
    if (config.beta_fast <= config.beta_slow) {
      build.reject(
          "beta_fast",
          fmt::format("{} is not above beta_slow = {}", config.beta_fast, config.beta_slow));
    }
    const i64 features = config.features(build);
    // The pair that turns so often over the positions of training.
    const auto pair_of = [&](double turns) {
      const auto positions = static_cast<double>(config.original_positions);
      return static_cast<double>(features) * std::log(positions / (2 * std::numbers::pi * turns)) /
             (2 * std::log(config.base));
    };
    const double first = std::max(std::floor(pair_of(config.beta_fast)), 0.0);
    const double last =
        std::min(std::ceil(pair_of(config.beta_slow)), static_cast<double>(features - 1));
    const double width = std::max(last - first, 0.001);
    RotaryAngles angles = angles_of(config, features, config.factor, [&](i64 pair, double) {
      return std::clamp((static_cast<double>(pair) - first) / width, 0.0, 1.0);
    });
    const auto scale = [&](double of) { return 0.1 * of * std::log(config.factor) + 1; };
    const bool both = config.mscale && config.mscale_all_dim;
    angles.scale = config.attention_factor.value_or(
        both ? scale(*config.mscale) / scale(*config.mscale_all_dim) : scale(1));
    return angles;
  }
};

}  // namespace tessera

TESSERA_PLUGIN(rotary, "0.1.0", "Rotary positions") {
  using namespace tessera;
  registrar.add<Rotary, DefaultRotary>("default", "rotary positions (Su et al. 2021)");
  registrar.add<Rotary, LinearRotary>("linear", "rotary positions, divided by a factor");
  registrar.add<Rotary, Llama3Rotary>("llama3", "rotary positions, stretched as Llama 3.1's");
  registrar.add<Rotary, YarnRotary>("yarn", "rotary positions, stretched by YaRN");
}
