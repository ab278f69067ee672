-- The key of a singleton: of a type, or of a type and a subject. Without a subject it is that of the default unique policy, so
-- that an add with such a policy can replace the singleton that waits; no policy of the Open Job Spec has a subject.

create or replace function asyncq._singleton_key(type text, subject text) returns bytea
  language sql immutable
  as $$
  select sha256(convert_to(
    '{' || coalesce('"subject":' || to_json(asyncq._nfc(subject)) || ',', '')
      || '"type":' || to_json(asyncq._nfc(type)) || '}',
    'UTF8'))
  $$;
