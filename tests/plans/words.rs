//! Every algorithm is found by its name, and every word of the option `algo` is one.

use kolo::algo::REGISTRY;
use kolo::config::Algo;
use kolo::plan::Algorithm;

#[test]
fn every_word_of_the_option_names_an_algorithm() {
    for word in Algo::WORDS
        .iter()
        .filter(|word| word.text != Algo::Auto.text())
    {
        let algorithm = Algorithm::named(word.text);
        assert!(algorithm.is_some(), "`{}` names none", word.text);
    }
    for entry in REGISTRY {
        let algorithm = entry.algorithm;
        assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
    }
    assert_eq!(Algorithm::named("auto"), None);
}
