// npm's oidc-provider on a free port of the loopback; prints the port. Its settings come as one JSON document.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [place, text] = process.argv.slice(2)
const settings = JSON.parse(text)
const found = createRequire(place + '/node_modules/').resolve('oidc-provider')
const { default: Provider } = await import(pathToFileURL(found))
let answer = (_, response) => response.end()
const server = createServer((request, response) => answer(request, response))
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: settings.client_id,
        client_secret: settings.client_secret,
        redirect_uris: settings.redirect_uris,
        grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
        response_types: ['code'],
      },
    ],
    jwks: settings.jwks,
    cookies: { keys: settings.cookie_keys },
    features: { deviceFlow: { enabled: true } },
    scopes: ['openid', 'profile', 'groups'],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id.split('-')[0], groups: settings.groups[id] ?? [] }),
    }),
  })
  answer = provider.callback()
  console.log(JSON.stringify({ port: server.address().port }))
})
process.stdin.on('end', () => process.exit(0)).resume()
